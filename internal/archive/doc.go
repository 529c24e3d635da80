// Package archive runs the archive's own parts on this machine, for a test and the demo:
// its lister, loader and storage, from PyPI and unchanged, and a forge for them to visit.
//
// They are in a Python environment of their own ([services.FindArchive]). Lister and loader
// are Celery workers with a configuration file each: the loader takes each key of its file
// as an argument, so it must not have the lister's.
package archive
