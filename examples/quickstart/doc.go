// Quickstart takes a turn on a key, in one process and on the in-memory store. It is the program
// that README.md shows.
package main
