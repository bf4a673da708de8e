package keytmpl_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/keyturn/keyturn/keytmpl"
)

func TestEscape(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"user-42_x.y@example.org", "user-42_x.y@example.org"},
		{"a:b", "a%3Ab"},
		{"a/b//", "a%2Fb%2F%2F"},
		{"%3A", "%253A"},
		{"{tag}", "%7Btag%7D"},
		{" \t\r\n\x00\x7f", "%20%09%0D%0A%00%7F"},
		{"\u0085\u00a0\u2028\u3000", "%C2%85%C2%A0%E2%80%A8%E3%80%80"},
		{"Grüße 世界", "Grüße%20世界"},
		{"\xff\xc3", "%FF%C3"},
		{"\xc3\xa9\xc3", "é%C3"},
		{"\xed\xa0\x80", "%ED%A0%80"}, // a surrogate half, invalid in UTF-8
		{"\uFFFD", "\uFFFD"},          // stands for an invalid byte, but is none
	}
	for _, tt := range tests {
		if got := keytmpl.Escape(tt.in); got != tt.want {
			t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

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
