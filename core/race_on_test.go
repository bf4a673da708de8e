//go:build race

package core_test

// racing: the race detector is on, with which functions take more of the stack.
const racing = true
