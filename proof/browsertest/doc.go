// Package browsertest tests the console's pages in a real browser, without a window.
//
//	make test-browser
//	make screenshots   # those of docs/console.md
package browsertest
