package keytmpl_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/keytmpl"
)

// TestDifferentValuesDifferentKeys tries all pairs of short values made of the characters that could be mistaken for
// a separator or for a part of an escape. It gets the values back out of each key, which it could not do, for one of
// them at least, if two tuples shared a key.
func TestDifferentValuesDifferentKeys(t *testing.T) {
	tests := []struct {
		src, alphabet string
		maxLen        int
	}{
		{"{a}:{b}", ":%3A", 3},
		{"{a}-{b}", "-%2D:", 3},
		{"{a}2{b}", "2%35D", 3}, // the separator is a digit of its own escape %32
		{"{a}A{b}", "A%41", 3},
		{"{a} {b}", " %20x", 3},
		{"{a}.:.{b}", ".:%3", 3},
		{"{a}é{b}", "é%C3\xc3\xa9", 3},
		{"{a}\u2028{b}", "\u2028%E\xe2", 3},
		{"{a}\uFFFD{b}", "\uFFFD\xff%F", 3},
		{"{a}-{b}.{c}", "-.%2", 2},
		{"{a}/{b}", "/%2F:", 3},
		{"{a}/{b}-{c}", "/-%2", 2},
		{"{a}x-{b}-x{c}", "x-%7", 2},
		{"{a|hash}a{b}", "a%61", 3},
		{"{a}a{b|hash}", "a%61", 3},
	}
	for _, tt := range tests {
		tmpl := keytmpl.MustParse(tt.src)
		words := wordsOf(tt.alphabet, tt.maxLen)
		forEachTuple(words, len(tmpl.Placeholders()), func(tuple []string) {
			key, err := tmpl.Key(values(tuple...))
			if err != nil || !checkUndone(t, tmpl, tuple, key) {
				t.Fatalf("%s: %q: %v", tt.src, tuple, err)
			}
		})
	}
}

// wordsOf returns all strings of 1 to maxLen letters of an alphabet, in which an invalid byte counts as a letter.
func wordsOf(alphabet string, maxLen int) []string {
	var letters []string
	for len(alphabet) > 0 {
		_, size := utf8.DecodeRuneInString(alphabet)
		letters, alphabet = append(letters, alphabet[:size]), alphabet[size:]
	}
	seen := make(map[string]bool) // two invalid bytes may join to a valid letter
	longest := []string{""}
	for range maxLen {
		var longer []string
		for _, w := range longest {
			for _, l := range letters {
				longer = append(longer, w+l)
				seen[w+l] = true
			}
		}
		longest = longer
	}
	var words []string
	for w := range seen {
		words = append(words, w)
	}
	return words
}

func forEachTuple(words []string, n int, visit func([]string)) {
	tuple := make([]string, n)
	var fill func(i int)
	fill = func(i int) {
		if i == n {
			visit(tuple)
			return
		}
		for _, w := range words {
			tuple[i] = w
			fill(i + 1)
		}
	}
	fill(0)
}

// checkUndone checks that a key gives back the values it was rendered from; of a hashed value, the digest.
func checkUndone(t *testing.T, tmpl *keytmpl.Template, tuple []string, key string) bool {
	t.Helper()
	if why := invalidKey(key); why != "" {
		t.Errorf("%q renders %q as %q: %s", tmpl, tuple, key, why)
		return false
	}
	want := spelled(t, tmpl, tuple)
	for i, p := range tmpl.Placeholders() {
		if p.Hash {
			sum := sha256.Sum256([]byte(want[i]))
			want[i] = hex.EncodeToString(sum[:])
		}
	}
	got, err := undo(tmpl, key)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q renders %q as %q, which reads %q, %v", tmpl, tuple, key, got, err)
		return false
	}
	return true
}

// undo is the argument in escape.go as a program: it reads the values out of a
// key. It knows the template's source only, and nothing of how keys are rendered.
func undo(tmpl *keytmpl.Template, key string) ([]string, error) {
	texts := textsOf(tmpl)
	rest, found := strings.CutPrefix(key, texts[0])
	if !found {
		return nil, fmt.Errorf("does not begin with %q", texts[0])
	}
	var tuple []string
	for i, p := range tmpl.Placeholders() {
		text := texts[i+1]
		separator := ' ' // reserved anyway
		if !strings.ContainsFunc(text, isReserved) {
			separator, _ = utf8.DecodeRuneInString(text)
		}
		isSpecial := func(r rune) bool { return isReserved(r) || r == separator }
		var end int
		switch {
		case p.Hash:
			end = 64
		case i == len(texts)-2:
			end = len(rest) - len(text)
		default:
			end = firstToken(rest, isSpecial) - strings.IndexFunc(text, isSpecial)
		}
		if end < 1 || end > len(rest) || !strings.HasPrefix(rest[end:], text) {
			return nil, fmt.Errorf("%v can't end at byte %d of %q", p, end, rest)
		}
		v, err := url.PathUnescape(rest[:end])
		if err != nil {
			return nil, err
		}
		tuple = append(tuple, v)
		rest = rest[end+len(text):]
	}
	if rest != "" {
		return nil, fmt.Errorf("%q is left", rest)
	}
	return tuple, nil
}

// isReserved reports whether a value never has this character unescaped.
func isReserved(r rune) bool {
	return strings.ContainsRune("%:/{}", r) || unicode.IsSpace(r) || unicode.IsControl(r)
}

// firstToken finds the first special character outside of escapes.
func firstToken(s string, isSpecial func(rune) bool) int {
	for i := 0; i < len(s); {
		if s[i] == '%' {
			i += len("%XX")
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if isSpecial(r) {
			return i
		}
		i += size
	}
	return len(s)
}

func textsOf(tmpl *keytmpl.Template) []string {
	var texts []string
	end := 0
	for _, p := range tmpl.Placeholders() {
		texts = append(texts, tmpl.String()[end:p.Pos])
		end = p.Pos + len(p.String())
	}
	return append(texts, tmpl.String()[end:])
}

// The levels of a key are those of its template, whatever the values, and each is the key of the template that ends
// there: so a rule for all of a group and the rules for its members mean the same group.
func TestLevelsAreTheTemplates(t *testing.T) {
	tmpl := keytmpl.MustParse("g:{g}/{a}-{b}/c/{d|hash}")
	alphabet := wordsOf("/-%2F:", 2)
	for _, g := range alphabet {
		for _, a := range alphabet {
			key, err := tmpl.Key(values(g, a, a, a))
			if err != nil {
				t.Fatal(err)
			}
			for levels, prefix := range []string{"g:{g}", "g:{g}/{a}-{b}", "g:{g}/{a}-{b}/c", tmpl.String()} {
				want, err := keytmpl.MustParse(prefix).Key(values(g, a, a, a))
				if err != nil {
					t.Fatal(err)
				}
				parts := strings.Split(key, "/")
				if len(parts) != 4 || strings.Join(parts[:levels+1], "/") != want {
					t.Fatalf("%q, %q: %d levels of %q are not %q", g, a, levels+1, key, want)
				}
			}
		}
	}
}
