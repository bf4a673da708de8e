// Package table writes rows: in columns on a terminal, and with a tab between the cells in a pipe.
// Columns count cells of the terminal, as a wide character takes two of them.
package table

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// Table collects rows. Make one with [New], and end it with [Table.Flush].
type Table struct {
	out     *bufio.Writer
	style   Style
	columns int
	rows    [][]string // of a terminal, until Flush knows the widths
}

// Style is how a table is written.
type Style struct {
	Terminal  bool // columns, instead of tabs
	Bold      bool // for the header on a terminal
	NoHeaders bool
}

// New begins a table with these headings.
func New(w io.Writer, style Style, headings ...string) *Table {
	t := &Table{out: bufio.NewWriter(w), style: style, columns: len(headings)}
	switch {
	case style.NoHeaders:
	case style.Terminal:
		t.rows = append(t.rows, headings)
	default:
		t.Row(headings...)
	}
	return t
}

// Row adds a row. Cells are made safe with [Safe]; an empty one is written as "-".
func (t *Table) Row(cells ...string) {
	safe := make([]string, t.columns)
	for i := range safe {
		safe[i] = "-"
		if i < len(cells) && cells[i] != "" {
			safe[i] = Safe(cells[i])
		}
	}
	if t.style.Terminal {
		t.rows = append(t.rows, safe)
		return
	}
	t.line(strings.Join(safe, "\t"))
}

// line writes a line. An error of the writer comes back from Flush.
func (t *Table) line(text string) { _, _ = t.out.WriteString(text + "\n") }

// Flush writes what is left. The error is that of the writer.
func (t *Table) Flush() error {
	widths := make([]int, t.columns)
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	for n, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell)+2))
			}
		}
		text := b.String()
		if n == 0 && t.style.Bold && !t.style.NoHeaders {
			text = "\x1b[1m" + text + "\x1b[0m"
		}
		t.line(text)
	}
	t.rows = nil
	return t.out.Flush()
}

// Safe returns text as a terminal may show it: as it is, or quoted as Go does if it has characters
// that a terminal does not print, or looks as if it were quoted. Keys and owners come from strangers.
func Safe(text string) string {
	unsafe := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if strings.ContainsFunc(text, unsafe) || strings.HasPrefix(text, `"`) {
		return strconv.Quote(text)
	}
	return text
}
