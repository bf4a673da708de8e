// Package waits builds the wait-for graph of all processes from what a store shows, finds the circles
// in it, and lays it out for a picture.
//
// There are two graphs. In one the nodes are requests, known by their trace ids: a request that
// holds one key and waits for another. A circle there looks like a deadlock. In the other one the
// nodes are processes. A circle there is a hint only, because two requests of one process may have
// nothing to do with each other.
package waits
