// Package browsertest tests the console's pages in a real browser, without a window. It is a module of
// its own, so that nothing else needs a browser.
//
//	make test-browser
//	make screenshots   # those of docs/console.md
package browsertest
