// Package node talks to one Redis server of several. Requests about one key reach the server in the
// order in which they were made, so a release never overtakes the request that it undoes. Requests
// that are made while others are under way go together in the next pipeline.
package node
