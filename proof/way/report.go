package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/keyturn/keyturn"

// report prints what the counters below dir say.
func report(dir string, list bool, out io.Writer) error {
	functions, err := entered(dir)
	if err != nil {
		return err
	}
	locks, err := locked(dir)
	if err != nil {
		return err
	}
	files, packages := make(map[string][]string), make(map[string]int)
	for _, f := range functions {
		files[f.file] = append(files[f.file], f.name)
		packages[path.Dir(f.file)]++
	}
	taken := 0
	for _, n := range locks {
		taken += n
	}
	fmt.Fprintf(out, "%4d functions in %d files of %d packages\n%4d mutexes\n", len(functions), len(files), len(packages), taken)
	if !list {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(out, "%-50s %3d %s\n", file, len(files[file]), strings.Join(files[file], " "))
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		fmt.Fprintf(out, "%-50s %3d\n", pkg, packages[pkg])
	}
	for _, line := range slices.Sorted(maps.Keys(locks)) {
		fmt.Fprintf(out, "%-50s %3d mutexes\n", line, locks[line])
	}
	return nil
}

type function struct{ file, name string }

// entered returns the functions that were entered. A function without a statement has no counter.
func entered(dir string) (all []function, err error) {
	printed, err := command("go", "tool", "covdata", "func", "-i="+dir)
	for line := range strings.Lines(printed) {
		at, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 3 || fields[2] == "0.0%" || !ours(at) {
			continue
		}
		all = append(all, function{file: strings.TrimPrefix(at, module+"/"), name: fields[1]})
	}
	slices.SortFunc(all, func(a, b function) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.name, b.name)) })
	return all, err
}

// ours reports whether the file is on the way, and not this command's.
func ours(file string) bool {
	return strings.HasPrefix(file, module+"/") && !strings.HasPrefix(file, module+"/proof/") && !strings.HasPrefix(file, module+"/internal/redistest")
}

// block is a line of a coverage profile: file:line.column,line.column statements count.
var block = regexp.MustCompile(`^(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

var lock = regexp.MustCompile(`\b(\w*[mM]u|\w*[mM]utex)?\.(R|Try)?Lock\(\)`)

// locked returns how often each line took a mutex.
func locked(dir string) (map[string]int, error) {
	profile := filepath.Join(dir, "profile")
	if _, err := command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	root, err := command("go", "list", "-m", "-f={{.Dir}}", module)
	if err != nil {
		return nil, err
	}
	times := make(map[string]int)
	sources := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		m := block.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[4] == "0" || !ours(m[1]) {
			continue
		}
		file := strings.TrimPrefix(m[1], module+"/")
		if sources[file] == nil {
			source, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), file))
			if err != nil {
				return nil, err
			}
			sources[file] = strings.Split(string(source), "\n")
		}
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		count, _ := strconv.Atoi(m[4])
		for n := from; n <= to; n++ {
			if lock.MatchString(sources[file][n-1]) {
				times[fmt.Sprintf("%s:%d", file, n)] = count
			}
		}
	}
	return times, nil
}
