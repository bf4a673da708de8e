// Command way counts what one warm, uncontended Do over Redis goes through: the functions of this
// project that it enters, with their files and packages, the mutexes that it takes, the frames below
// its command, and the heap objects that it makes. It builds itself with coverage for that:
//
//	go run ./way -list
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/keyturn/keyturn/internal/redistest"
)

func main() {
	list := flag.Bool("list", false, "also list the functions and the lines with mutexes")
	call := flag.String("call", "", "internal: make the call on the server at this `address`")
	flag.Parse()
	var err error
	if *call != "" {
		err = callOnce(context.Background(), *call, *list)
	} else {
		err = run(*list, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "way:", err)
		os.Exit(1)
	}
}

// run starts a server and a child that makes the call, and prints what the child left.
func run(list bool, out io.Writer) (err error) {
	servers := new(redistest.Run)
	defer func() { err = errors.Join(err, servers.End()) }()
	var server *redistest.Server
	var dir string
	if err := servers.Try(func() { server, dir = redistest.Start(servers), servers.TempDir() }); err != nil {
		return err
	}
	program := filepath.Join(dir, "way")
	if _, err := command("go", "build", "-o", program, "-cover", "-covermode=atomic", "-coverpkg="+module+"/...", module+"/proof/way"); err != nil {
		return err
	}
	if err := objects(context.Background(), server.Addr(), out); err != nil { // here, because coverage makes objects, too
		return err
	}
	child := exec.Command(program, "-call", server.Addr(), fmt.Sprintf("-list=%t", list))
	child.Env = append(os.Environ(), "GOCOVERDIR="+dir)
	child.Stdout, child.Stderr = out, os.Stderr
	if err := child.Run(); err != nil {
		return err
	}
	return report(filepath.Join(dir, counted), list, out)
}

// command runs a program and returns what it printed.
func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return string(printed), err
}
