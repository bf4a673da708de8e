// Quickstart takes turns and runs something once, in one process and on the in-memory store. It is
// the program that README.md shows.
package main
