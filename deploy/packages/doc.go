// Packages makes the .deb and the .rpm of the directory of a release, which build.sh prepares for the archive: the
// program, docs, units, samples and licences. It is a separate module, as nfpm and the man pages need many modules
// that the program doesn't.
//
//	packages DIRECTORY VERSION ARCHITECTURE OUT
//
// ARCHITECTURE is Go's name (amd64). The same directory gives the same bytes: all files have the time of
// SOURCE_DATE_EPOCH. The scripts work with dpkg and rpm, which call them with different arguments.
package main
