package table

import (
	"bytes"
	"errors"
	"testing"
)

func write(style Style) string {
	var b bytes.Buffer
	t := New(&b, style, "KEY", "N")
	t.Row("世界", "1")
	t.Row("a\x1b[31m", "")
	t.Row("abcdefgh", "33")
	_ = t.Flush()
	return b.String()
}

func TestStyles(t *testing.T) {
	for _, c := range []struct {
		style Style
		want  string
	}{
		{Style{}, "KEY\tN\n世界\t1\n\"a\\x1b[31m\"\t-\nabcdefgh\t33\n"},
		{Style{NoHeaders: true}, "世界\t1\n\"a\\x1b[31m\"\t-\nabcdefgh\t33\n"},
		{Style{Terminal: true}, "KEY          N\n世界         1\n\"a\\x1b[31m\"  -\nabcdefgh     33\n"},
		{Style{Terminal: true, Bold: true}, "\x1b[1mKEY          N\x1b[0m\n世界         1\n\"a\\x1b[31m\"  -\nabcdefgh     33\n"},
		{Style{Terminal: true, Bold: true, NoHeaders: true}, "世界         1\n\"a\\x1b[31m\"  -\nabcdefgh     33\n"},
	} {
		if got := write(c.style); got != c.want {
			t.Errorf("%+v:\n%q, want\n%q", c.style, got, c.want)
		}
	}
}

func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"user:42": "user:42", "a b": "a b", "世界": "世界", "": "",
		"a\tb": `"a\tb"`, "a\u202eb": `"a\u202eb"`, `"a"`: `"\"a\""`, "a\xff": `"a\xff"`, "\u009b31m": `"\u009b31m"`,
	} {
		if got := Safe(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriterFails(t *testing.T) {
	table := New(full{}, Style{}, "A")
	table.Row("b")
	if err := table.Flush(); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}
