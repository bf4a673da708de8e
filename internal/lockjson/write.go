package lockjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
)

// Write writes one key, or anything else of this package, as an object with line breaks and a line
// break at its end. The error is that of w.
func Write(w io.Writer, v any) error { return write(w, v, "", "  ") }

// WriteLine writes v as one line.
func WriteLine(w io.Writer, v any) error { return write(w, v, "", "") }

func write(w io.Writer, v any, prefix, indent string) error {
	text, err := encode(v, prefix, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// encode leaves < > & as they are: the text is not for HTML, and keys should be readable. What a
// terminal does not print, such as a change of direction, is escaped: keys come from strangers.
func encode(v any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, indent)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.IndexFunc(text, hidden) < 0 {
		return text, nil
	}
	var safe []byte
	for _, r := range string(text) {
		if !hidden(r) {
			safe = utf8.AppendRune(safe, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // it is in a string: the rest of JSON is ASCII
			safe = fmt.Appendf(safe, "\\u%04x", unit)
		}
	}
	return safe, nil
}

func hidden(r rune) bool { return r >= utf8.RuneSelf && !unicode.IsPrint(r) }

// WriteArray writes locks, as Engine.List yields them, as one array, each key as it comes. If locks
// yields an error, it returns that and leaves the array without its end, so that no reader takes a
// part for the whole.
func WriteArray(w io.Writer, locks iter.Seq2[driver.LockInfo, error]) error {
	next := "[\n  "
	for info, err := range locks {
		if err != nil {
			return err
		}
		text, err := encode(Of(info), "  ", "  ")
		if err != nil {
			return err
		}
		if _, err := w.Write(append([]byte(next), text...)); err != nil {
			return err
		}
		next = ",\n  "
	}
	end := "\n]\n"
	if next[0] == '[' {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// WriteLines writes locks one a line, each as it comes. An error of locks ends it.
func WriteLines(w io.Writer, locks iter.Seq2[driver.LockInfo, error]) error {
	for info, err := range locks {
		if err != nil {
			return err
		}
		if err := WriteLine(w, Of(info)); err != nil {
			return err
		}
	}
	return nil
}
