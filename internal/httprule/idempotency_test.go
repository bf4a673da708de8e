package httprule

import (
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) {
	long := strings.Repeat("x", maxIdempotencyKey)
	for _, tt := range []struct {
		name    string
		lines   []string
		key     string
		problem string
	}{
		{name: "a string", lines: []string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, key: "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{name: "the same without quotes", lines: []string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, key: "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{name: "blanks around", lines: []string{`  "a b"  `}, key: "a b"},
		{name: "escapes", lines: []string{`"a\"b\\c"`}, key: `a"b\c`},
		{name: "as long as can be", lines: []string{`"` + long + `"`}, key: long},
		{name: "base64", lines: []string{"a+/b=="}, key: "a+/b=="},

		{name: "none", problem: "is missing"},
		{name: "empty", lines: []string{""}, problem: "is empty"},
		{name: "an empty string", lines: []string{`""`}, problem: "is empty"},
		{name: "two lines", lines: []string{"a", "a"}, problem: "more than once"},
		{name: "too long", lines: []string{`"x` + long + `"`}, problem: "too long"},
		{name: "too long without quotes", lines: []string{"x" + long}, problem: "too long"},
		{name: "a list", lines: []string{`"a", "b"`}, problem: "RFC 9651"},
		{name: "a list without quotes", lines: []string{"a,b"}, problem: "RFC 9651"},
		{name: "parameters", lines: []string{`"a";b=1`}, problem: "RFC 9651"},
		{name: "parameters without quotes", lines: []string{"a;b"}, problem: "RFC 9651"},
		{name: "two words", lines: []string{"a b"}, problem: "RFC 9651"},
		{name: "no end", lines: []string{`"a`}, problem: "RFC 9651"},
		{name: "a quote alone", lines: []string{`"`}, problem: "RFC 9651"},
		{name: "a quote at the end", lines: []string{`a"`}, problem: "RFC 9651"},
		{name: "a backslash at the end", lines: []string{`"a\`}, problem: "RFC 9651"},
		{name: "an escape that is none", lines: []string{`"a\b"`}, problem: "RFC 9651"},
		{name: "NUL", lines: []string{"\"a\x00\""}, problem: "RFC 9651"},
		{name: "not ASCII", lines: []string{`"é"`}, problem: "RFC 9651"},
		{name: "not ASCII without quotes", lines: []string{"é"}, problem: "RFC 9651"},
	} {
		key, problem := idempotencyKey(tt.lines)
		if key != tt.key || !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") {
			t.Errorf("%s: idempotencyKey(%q) = %q, %q; want %q, %q", tt.name, tt.lines, key, problem, tt.key, tt.problem)
		}
	}
}

// FuzzIdempotencyKey: a key is what can be written as a string again, and then read as the same key.
func FuzzIdempotencyKey(f *testing.F) {
	for _, line := range []string{`"a"`, `a`, `"a\"b"`, `"`, ``, "\x00", `"é"`, `"a" `} {
		f.Add(line)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, line string) {
		key, problem := idempotencyKey([]string{line})
		if problem != "" {
			return
		}
		again, problem := idempotencyKey([]string{`"` + escape.Replace(key) + `"`})
		if again != key || problem != "" || key == "" || len(key) > maxIdempotencyKey {
			t.Errorf("%q: key %q, read again as %q, %q", line, key, again, problem)
		}
	})
}
