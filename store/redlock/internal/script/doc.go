// Package script has the Lua scripts that a node runs, and reads their replies. Each script is one
// step of one node. What a quorum of nodes makes of these steps is decided in package redlock.
package script
