// Packages makes the .deb and the .rpm of one directory of a release, as build.sh lays it out for the archive: the
// program, docs, units, samples and licences. It is a module of its own: nfpm and what makes the man pages need much
// that is no part of the program.
//
//	packages DIRECTORY VERSION ARCHITECTURE OUT
//
// ARCHITECTURE is Go's name (amd64). The same directory gives the same bytes: all files have the time of
// SOURCE_DATE_EPOCH. The scripts are those of dpkg and of rpm at once, which call them with other arguments.
package main
