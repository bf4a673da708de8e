package keytmpl_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/keytmpl"
)

func TestEscapeOfEveryCharacterAndByte(t *testing.T) {
	check := func(in string, mustEscape bool) {
		got := keytmpl.Escape(in)
		if why := invalidKey(got); why != "" {
			t.Errorf("Escape(%q) = %q: %s", in, got, why)
		}
		if back, err := url.PathUnescape(got); err != nil || back != in {
			t.Errorf("Escape(%q) = %q is undone to %q, %v", in, got, back, err)
		}
		if (got != in) != mustEscape {
			t.Errorf("Escape(%q) = %q", in, got)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) {
			check(string(r), isReserved(r))
		}
	}
	for c := 0x80; c < 0x100; c++ {
		check(string([]byte{byte(c)}), true)
	}
	for _, in := range []string{"\xc3\xa9\xc3", "\xed\xa0\x80", "%3A", "a/b//"} { // \xed\xa0\x80 is a surrogate half
		check(in, true)
	}
	if got, want := keytmpl.Escape(" {Grüße\xff:"), "%20%7BGrüße%FF%3A"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// invalidKey says why a string is not a valid key, in the words of the key rules.
func invalidKey(key string) string {
	switch {
	case !utf8.ValidString(key):
		return "not valid UTF-8"
	case key == "" || len(key) > 512:
		return "not 1 to 512 bytes"
	case strings.ContainsFunc(key, unicode.IsControl):
		return "contains a control character"
	case strings.ContainsAny(key, "{}"):
		return "contains a brace"
	}
	return ""
}
