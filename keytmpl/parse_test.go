package keytmpl_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/keytmpl"
)

func TestParseReadsPlaceholders(t *testing.T) {
	type (
		P = keytmpl.Placeholder
		S = keytmpl.Segment
	)
	tests := []struct {
		src      string
		want     []P
		multiple bool
	}{
		{"nightly-report", []P{}, false},
		{"{type}", []P{{Path: []S{{Name: "type"}}}}, false},
		{"user:status:{user_id}", []P{{Path: []S{{Name: "user_id"}}, Pos: 12}}, false},
		{"group:{group.id}:{metadata.x-tenant}", []P{
			{Path: []S{{Name: "group"}, {Name: "id"}}, Pos: 6},
			{Path: []S{{Name: "metadata"}, {Name: "x-tenant"}}, Pos: 17},
		}, false},
		{"{members[*].id}", []P{{Path: []S{{Name: "members", Each: true}, {Name: "id"}}}}, true},
		{"é:{a.ids[*]|hash}", []P{{Path: []S{{Name: "a"}, {Name: "ids", Each: true}}, Hash: true, Pos: 3}}, true},
		{"{body|hash}.", []P{{Path: []S{{Name: "body"}}, Hash: true}}, false},
		{"{a|int}:{b|lower|hash}", []P{
			{Path: []S{{Name: "a"}}, Filters: []string{"int"}},
			{Path: []S{{Name: "b"}}, Filters: []string{"lower"}, Hash: true, Pos: 8},
		}, false},
		{"{hash}:{0}", []P{{Path: []S{{Name: "hash"}}}, {Path: []S{{Name: "0"}}, Pos: 7}}, false},
		{"{id} {id}", []P{{Path: []S{{Name: "id"}}}, {Path: []S{{Name: "id"}}, Pos: 5}}, false},
		{"[*]|hash.{a}", []P{{Path: []S{{Name: "a"}}, Pos: 9}}, false},
	}
	for _, tt := range tests {
		tmpl, err := keytmpl.Parse(tt.src)
		if err != nil {
			t.Fatal(err)
		}
		got := tmpl.Placeholders()
		check(t, reflect.DeepEqual(got, tt.want) && tmpl.Multiple() == tt.multiple, "%s: placeholders %+v, want %+v; multiple: %v", tt.src, got, tt.want, tmpl.Multiple())
		checkSource(t, tmpl, tt.src)
	}
}

// checkSource checks that a template prints as its source, and that its
// placeholders print as what stands in the source at their position.
func checkSource(t *testing.T, tmpl *keytmpl.Template, src string) {
	t.Helper()
	check(t, tmpl.String() == src, "String() = %q, want %q", tmpl, src)
	for _, p := range tmpl.Placeholders() {
		check(t, strings.HasPrefix(src[p.Pos:], p.String()), "placeholder %v is not at byte %d of %q", p, p.Pos, src)
	}
}

func TestParseRefuses(t *testing.T) {
	const name = "a name of letters, digits, '_' and '-'"
	const goOn = "a letter, a digit, '_', '-', '.', '[*]', '|' or '}'"
	tests := []struct {
		what, src   string
		pos         int
		found, want string
	}{
		{"empty template", "", 0, "nothing", "text or a {placeholder}"},
		{"empty placeholder", "a:{}", 3, "'}'", name},
		{"unclosed brace", "a:{", 3, "the end", name},
		{"unclosed placeholder", "user:{id", 8, "the end", goOn},
		{"unopened brace", "user:id}", 7, "'}'", "closes nothing"},
		{"nested brace", "{a{b}}", 2, "'{'", goOn},
		{"leading space", "{ id}", 1, "' '", name},
		{"trailing dot", "{id.}", 4, "'}'", name},
		{"letter beyond ASCII", "{nam\u00e9}", 4, "'\u00e9'", goOn},
		{"invalid UTF-8 in a name", "{a\xff}", 2, "the byte 0xFF", goOn},
		{"index", "{a[0].id}", 2, "'['", "'[*]'"},
		{"name after brackets", "{a[*]b}", 5, "'b'", "'.', '|' or '}'"},
		{"only brackets", "{[*]}", 1, "'['", name},
		{"second list in the path", "{a[*].b[*]}", 7, "a second [*]", "every pair of elements"},
		{"second list", "{a[*]}:{b.c[*]}", 11, "a second [*]", "every pair of elements"},
		{"unknown filter", "{a|sha1}", 3, `"sha1"`, "one of the filters hash, lower, int"},
		{"no filter", "{a|}", 3, "'}'", "one of the filters"},
		{"filter behind hash", "{a|hash|lower}", 7, "'|'", "'}'"},
		{"no brace behind a filter", "{a|lower.b}", 8, "'.'", "'|' or '}'"},
		{"a filter of somebody else's", "{a|nfc}", 3, `"nfc"`, "hash, lower, int"},
		{"adjacent", "x:{a}{b}", 5, "a placeholder right behind {a}", `text between them, such as ":"`},
		{"percent sign", "100%:{a}", 3, "'%'", "without percent signs"},
		{"line feed", "a\n{b}", 1, `'\n'`, "without control characters"},
		{"C1 control", "a\u0085", 1, `'\u0085'`, "without control characters"},
		{"invalid UTF-8", "a\xc3:{b}", 1, "the byte 0xC3", "valid UTF-8"},
		{"over the limit", strings.Repeat("a", 513), 512, "a template of 513 bytes", "at most 512"},
		{"no key is short enough", strings.Repeat("{body|hash}:", 8), 7 * 12, "a key of 520 bytes", "at most 512"},
	}
	for _, tt := range tests {
		tmpl, err := keytmpl.Parse(tt.src)
		var syntax *keytmpl.SyntaxError
		if tmpl != nil || !errors.As(err, &syntax) {
			t.Errorf("%s: Parse(%q) = %v, %v; want a SyntaxError", tt.what, tt.src, tmpl, err)
			continue
		}
		if syntax.Template != tt.src || syntax.Pos != tt.pos || !strings.Contains(syntax.Found, tt.found) || !strings.Contains(syntax.Want, tt.want) {
			t.Errorf("%s: %+v; want %d, %q and %q", tt.what, syntax, tt.pos, tt.found, tt.want)
		}
	}
}

func TestParseAcceptsUpToTheLimit(t *testing.T) {
	for _, src := range []string{
		strings.Repeat("a", 512),
		strings.Repeat("a", 509) + "{b}",
		strings.Repeat("{body|hash}:", 7) + strings.Repeat("a", 512-7*65),
	} {
		if _, err := keytmpl.Parse(src); err != nil {
			t.Error(err)
		}
	}
}

func TestSyntaxErrorDoesNotPrintAHugeTemplate(t *testing.T) {
	_, err := keytmpl.Parse("begin" + strings.Repeat("\x00", 1<<20))
	msg := fmt.Sprint(err)
	check(t, len(msg) <= 500 && strings.Contains(msg, "begin"), "message of %d bytes: %.100s", len(msg), msg)
}

func TestMustParsePanicsWithTheError(t *testing.T) {
	defer func() {
		if _, ok := recover().(*keytmpl.SyntaxError); !ok {
			t.Error("no panic with a SyntaxError")
		}
	}()
	keytmpl.MustParse("{")
}

func TestPlaceholdersIsACopy(t *testing.T) {
	tmpl := keytmpl.MustParse("{a.b}")
	tmpl.Placeholders()[0].Path[0].Name = "changed"
	got := tmpl.Placeholders()[0].String()
	check(t, got == "{a.b}", "a caller changed the template to %s", got)
}
