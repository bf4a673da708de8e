// Command modproxy writes modules of a work tree to a directory that the go command can
// use as a module proxy, as if each of them had been tagged with a version:
//
//	modproxy -version v0.1.0 -out /tmp/proxy . store/etcdstore
//	GOPROXY=file:///tmp/proxy,... go get github.com/keyturn/keyturn/store/etcdstore@v0.1.0
//
// With -branch main the version is that of a branch, and no tag: "go get ...@main" finds it.
//
// So a release can be tried out, by programs outside of the tree, before it is made. What
// goes into a module's archive, and what does not, is decided by the package with which
// the go command makes archives of tags.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	version := flag.String("version", "", "version of every module, such as v0.1.0")
	branch := flag.String("branch", "", "the branch that the version is of, instead of a tag")
	out := flag.String("out", "", "directory of the proxy")
	flag.Parse()
	for _, dir := range flag.Args() {
		if err := publish(dir, *version, *branch, *out); err != nil {
			fmt.Fprintf(os.Stderr, "modproxy: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

// publish adds the module in dir. The files and their names are those of
// https://go.dev/ref/mod#goproxy-protocol.
func publish(dir, version, branch, out string) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	at := filepath.Join(out, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{
		version + ".info": info,
		version + ".mod":  mod,
	}
	if branch == "" {
		files["list"] = []byte(version + "\n")
	} else {
		files["list"], files["../@latest"], files[branch+".info"] = nil, info, info
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(archive, m, dir), archive.Close())
}
