// Package poll looks into a store for all viewers together, and keeps what it has seen.
//
// It asks only while somebody looks. Each interval it asks for some pages of the list of keys, in
// rotation, and for a few keys that matter more: those that a viewer has opened, and those with the
// longest waits. So a store with a million keys has no more to do than one with a thousand; the rows
// are just older.
package poll
