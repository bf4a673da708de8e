package keytmpl_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keyturn/keyturn/keytmpl"
)

func FuzzParse(f *testing.F) {
	for _, src := range []string{
		"", "nightly", "user:status:{user_id}", "group:{group.id}:{metadata.x-tenant}", "{members[*].id}",
		"{body|hash}", "{a}-{b}", "{a}{b}", "{", "}", "{}", "{a", "{a.}", "{a[*]}:{b[*]}", "{a|", "{a|hash|hash}", "{a|int|lower|hash}:{b|lower}",
		"a%{b}", "a\x00", "\xff", "{\xff}", "{é}", "é{a}é{b}", " {a} ", strings.Repeat("{a|hash}:", 9),
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := keytmpl.Parse(src)
		if err != nil {
			checkSyntaxError(t, src, err)
			return
		}
		checkSource(t, tmpl, src)
		again, err := keytmpl.Parse(tmpl.String())
		check(t, err == nil && reflect.DeepEqual(again, tmpl), "%q parsed again is %+v, %v", src, again, err)
		why := invalidKey(strings.NewReplacer("{", "", "}", "").Replace(src))
		check(t, why == "", "accepted %q: %s", src, why)
	})
}

func checkSyntaxError(t *testing.T, src string, err error) {
	t.Helper()
	var syntax *keytmpl.SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatalf("Parse(%q): %v is no SyntaxError", src, err)
	}
	check(t, syntax.Template == src && syntax.Pos >= 0 && syntax.Pos <= len(src) && syntax.Found != "" && syntax.Want != "", "Parse(%q): %+v", src, syntax)
	if msg := err.Error(); !utf8.ValidString(msg) || strings.ContainsAny(msg, "\x00\r\n") {
		t.Errorf("Parse(%q): message %q is not fit for a log", src, msg)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("{a}:{b}", "x:y", "z", "x", "y:z")
	f.Add("{a}-{b}", "1-2", "3", "1", "2-3")
	f.Add("{a}2{b}", "2", "%32", "%32", "2")
	f.Add("{a}%{b}", "x", "25%", "x%", "25")
	f.Add("g:{a}/m:{b}-{a}", "1-2/m:3", "x", "1-2", "m:3/x")
	f.Add("u:{a}", "é", "", "e\u0301", "")
	f.Add("{a}é{b}", "\xc3\xa9", "\xc3", "\xc3", "\xa9é")
	f.Add("{a|hash}a{b}", "a", "a", "b", "aa")
	f.Add("{a}a{b|hash}", "a", "a", "aa", "b")
	f.Add("{a}:-{b}-:{c}", "-:", ":-", ":", "--")
	f.Add("{a} {b}\u2028{c}", " ", "\u2028", "\x00", "\n")
	f.Add("nightly", "", "", "x", "y")
	f.Add("{m[*].id}:{g}", "a", "b", "b", "a")
	f.Add("{a|lower}-{b}", "A-", "B", "a-", "B")
	f.Add("{a|int}:{b|lower|hash}", "5", "É", "5.0", "é")
	f.Add("{a|int}e{b|int}", "-0", "1e3", "0", "1000")
	f.Add("{m[*].id|int}", "1", "x", "10e-1", "1")
	f.Fuzz(func(t *testing.T, src, a, b, c, d string) {
		tmpl, err := keytmpl.Parse(src)
		if err != nil {
			t.Skip()
		}
		if tmpl.Multiple() {
			checkElements(t, tmpl, []string{a, b, c}, d)
			return
		}
		n := len(tmpl.Placeholders())
		one, two := cycle(n, a, b), cycle(n, c, d)
		key, ok := checkKey(t, tmpl, one)
		if !ok {
			return
		}
		candidates := append(readings(tmpl, key), two)
		for _, other := range candidates {
			if k, ok := checkKey(t, tmpl, other); ok && (k == key) != slices.Equal(spelled(t, tmpl, one), spelled(t, tmpl, other)) {
				t.Errorf("%q renders %q as %q and %q as %q", tmpl, one, key, other, k)
			}
		}
	})
}

func cycle(n int, a, b string) []string {
	tuple := make([]string, n)
	for i := range tuple {
		tuple[i] = []string{a, b}[i%2]
	}
	return tuple
}

// checkKey renders a tuple and checks that the result is the right error, or a valid key that gives the tuple back.
func checkKey(t *testing.T, tmpl *keytmpl.Template, tuple []string) (key string, ok bool) {
	t.Helper()
	key, err := tmpl.Key(values(tuple...))
	empty := slices.Contains(tuple, "")
	switch {
	case err == nil && empty:
		t.Fatalf("%q renders %q as %q", tmpl, tuple, key)
	case errors.Is(err, keytmpl.ErrMissingValue) && empty:
		return "", false
	case (errors.Is(err, keytmpl.ErrNotInteger) || errors.Is(err, keytmpl.ErrNotText)) && spelled(t, tmpl, tuple) == nil:
		return "", false
	case errors.Is(err, keytmpl.ErrTooLong) && longerThanAKey(tmpl, tuple):
		return "", false
	case err != nil:
		t.Fatalf("%q renders %q as %v", tmpl, tuple, err)
	}
	return key, checkUndone(t, tmpl, tuple, key)
}

// longerThanAKey reports whether a tuple may be refused: even with each byte of
// its values escaped it would otherwise have to fit.
func longerThanAKey(tmpl *keytmpl.Template, tuple []string) bool {
	size := len(strings.Join(textsOf(tmpl), ""))
	for i, p := range tmpl.Placeholders() {
		if p.Hash {
			size += 64
		} else {
			size += 3 * len(tuple[i])
			if len(p.Filters) > 0 { // "İ" in lower case has a byte more, 1e79 has 78
				size += len(tuple[i]) + 80
			}
		}
	}
	return size > keytmpl.MaxKeyBytes
}

// readings are attempts at a forgery: the key of a template with two placeholders,
// cut at each place where the text between them occurs.
func readings(tmpl *keytmpl.Template, key string) [][]string {
	texts := textsOf(tmpl)
	if len(texts) != 3 {
		return nil
	}
	body := strings.TrimSuffix(strings.TrimPrefix(key, texts[0]), texts[2])
	var tuples [][]string
	for i := range body {
		if strings.HasPrefix(body[i:], texts[1]) {
			tuples = append(tuples, []string{body[:i], body[i+len(texts[1]):]})
		}
	}
	return tuples
}

// checkElements checks that Keys returns the keys that the same template without [*] renders for each element.
func checkElements(t *testing.T, tmpl *keytmpl.Template, elements []string, plain string) {
	t.Helper()
	list := tmpl.Placeholders()
	each := slices.IndexFunc(list, keytmpl.Placeholder.Multiple)
	keys, err := tmpl.Keys(func(i int) ([]string, error) {
		if i == each {
			return elements, nil
		}
		return []string{plain}, nil
	})
	single := keytmpl.MustParse(strings.Replace(tmpl.String(), list[each].String(),
		strings.Replace(list[each].String(), "[*]", "", 1), 1))
	var want []string
	for _, e := range elements {
		key, wantErr := single.Key(func(i int) (string, error) {
			if i == each {
				return e, nil
			}
			return plain, nil
		})
		if wantErr != nil {
			check(t, err != nil && errors.Is(err, errors.Unwrap(wantErr)), "%q: Keys(%q, %q) = %q, %v; want %v", tmpl, elements, plain, keys, err, wantErr)
			return
		}
		want = append(want, key)
	}
	slices.Sort(want)
	if want = slices.Compact(want); err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q: Keys(%q, %q) = %q, %v; want %q", tmpl, elements, plain, keys, err, want)
	}
}
