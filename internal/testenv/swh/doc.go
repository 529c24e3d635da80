// Package swh runs the archive's own parts on this machine, for a test and the demo: its listers, loaders and
// storage, unchanged from PyPI. It also serves forges and packages for them to visit.
//
// They are in a Python environment of their own ([throwaway.FindArchive]). Listers and loaders are Celery workers
// with a configuration file each: a loader takes each key of its file as an argument, so it can't share a lister's.
package swh
