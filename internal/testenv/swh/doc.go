// Package swh runs the archive's own parts on this machine, for a test and the demo:
// its listers, loaders and storage, from PyPI and unchanged, and forges and packages for them to
// visit.
//
// They are in a Python environment of their own ([throwaway.FindArchive]). Listers and loaders
// are Celery workers with a configuration file each: a loader takes each key of its file
// as an argument, so it must not have a lister's.
package swh
