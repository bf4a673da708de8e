// Command protogen regenerates the Go code of .proto files without protoc.
//
// It compiles the files in process and passes the result to the two plugins that protoc would
// run. It writes their output next to each .proto file (what protoc calls
// paths=source_relative), formatted by gofumpt like all code here.
//
//	protogen -plugins .bin [-check] file.proto...
//
// Files are given relative to the working directory. In import statements, the name of a file
// starts at its proto root: the nearest directory above it called "proto" or, without one, the
// directory of its go.mod. The files of every root given may import each other and
// google/protobuf/*.
//
// It is neither protoc nor buf. protoc is C++: "go install" cannot pin it, so contributors would need the
// version of some distribution. buf is Go, but requires 119 modules, for the compiler in protocompile,
// which protogen calls itself.
//
// With -check nothing is written. The command fails if a generated file differs from what would
// be written.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// The plugins, in the order in which their output is listed.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

// formatter is in the same directory as the plugins.
const formatter = "gofumpt"

func main() {
	dir := flag.String("plugins", "", "directory of the protoc-gen-* binaries and of gofumpt")
	check := flag.Bool("check", false, "compare with the files on disk instead of writing")
	flag.Parse()
	if err := run(*dir, *check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(pluginDir string, check bool, files []string) error {
	var roots []string
	for _, file := range files {
		root, err := protoRoot(file)
		if err != nil {
			return err
		}
		roots = append(roots, root)
	}
	var generated []output
	for i, file := range files {
		request, err := compile(context.Background(), roots[i], file, roots)
		if err != nil {
			return err
		}
		for _, name := range plugins {
			out, err := runPlugin(filepath.Join(pluginDir, name), request, filepath.Dir(file))
			if err != nil {
				return err
			}
			for _, f := range out {
				if f.content, err = format(filepath.Join(pluginDir, formatter), f.content); err != nil {
					return fmt.Errorf("%s: %w", f.path, err)
				}
				generated = append(generated, f)
			}
		}
	}
	if check {
		return compare(generated)
	}
	return write(generated)
}

// output is one generated file and the place on disk where it belongs.
type output struct {
	path    string
	content []byte
}

func write(files []output) error {
	for _, f := range files {
		if err := os.WriteFile(f.path, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compare(files []output) error {
	var stale []string
	for _, f := range files {
		onDisk, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !bytes.Equal(onDisk, f.content) {
			stale = append(stale, f.path)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	slices.Sort(stale)
	return fmt.Errorf("not up to date, run make generate: %q", stale)
}
