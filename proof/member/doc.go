// Package member is what a started process of a history is: this program again, with a store of its
// own, which does the work of package work, or the same with another lock library.
package member
