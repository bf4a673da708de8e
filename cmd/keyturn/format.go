package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/keyturn/keyturn/cmd/keyturn/internal/table"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/lockjson"
)

// table begins a table on standard output.
func (a *app) table(headings ...string) *table.Table {
	terminal := isTerminal(a.stdout)
	return table.New(a.stdout, table.Style{
		Terminal: terminal, Bold: terminal && os.Getenv("NO_COLOR") == "", NoHeaders: a.noHeaders,
	}, headings...)
}

func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// json reports whether the output is JSON, and writes v if so.
func (a *app) json(v any) (bool, error) {
	switch a.output {
	case "json":
		return true, lockjson.Write(a.stdout, v)
	case "jsonl":
		return true, lockjson.WriteLine(a.stdout, v)
	}
	return false, nil
}

// jsonRows is json for rows: one array, or one object a line.
func jsonRows[T any](a *app, rows []T) (bool, error) {
	if a.output != "jsonl" {
		return a.json(rows)
	}
	var errs []error
	for _, row := range rows {
		errs = append(errs, lockjson.WriteLine(a.stdout, row))
	}
	return true, errors.Join(errs...)
}

// person is how an owner is shown: its process, or a foreign client's own text.
func person(owner string) string {
	if o, err := driver.ParseOwner(owner); err == nil {
		return o.Host + "/" + strconv.Itoa(o.PID)
	}
	return owner
}

// age writes a duration with two digits of what matters: 350ms, 1.5s, 28s, 2m05s, 3h12m, 4d02h.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "?"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
