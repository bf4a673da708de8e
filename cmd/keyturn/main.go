// Keyturn shows and breaks the locks of a store, and runs programs under them.
//
//	keyturn --store redis://localhost ls
//	keyturn --store redis://localhost run nightly -- ./backup.sh
//
// docs/cli.md has all of it: commands, output, exit statuses.
package main

import (
	"os"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/supervise"
)

func main() {
	if status, is := supervise.Helper(); is {
		os.Exit(status)
	}
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
