package keytmpl_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/keytmpl"
)

var check = checktest.That

func values(v ...string) func(int) (string, error) {
	return func(i int) (string, error) { return v[i], nil }
}

func lists(v ...[]string) func(int) ([]string, error) {
	return func(i int) ([]string, error) { return v[i], nil }
}

func TestKey(t *testing.T) {
	const digestOfHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	tests := []struct {
		src    string
		values []string
		want   string
	}{
		{"nightly-report", nil, "nightly-report"},
		{"{id}", []string{"42"}, "42"},
		{"group:{a}:{b}:end", []string{"x:y", "z"}, "group:x%3Ay:z:end"},
		{"{a}:{b}", []string{"100%", "{é}\t\xff"}, "100%25:%7Bé%7D%09%FF"},
		{"{a}-{b}", []string{"1-2", "3-4_5"}, "1%2D2-3-4_5"},
		{"{a}:{b}-", []string{"1-2", "3-"}, "1-2:3--"},
		{"{a}é{b}x{c}", []string{"né", "xé", "e"}, "n%C3%A9é%78éxe"},
		{"import:{body|hash}", []string{"hello"}, "import:" + digestOfHello},
		{"{body|hash}2{b}", []string{"hello", "12"}, digestOfHello + "2" + "12"},
		{"{id}", []string{strings.Repeat("x", 512)}, strings.Repeat("x", 512)},
		{"{body|hash}", []string{strings.Repeat("x", 1<<20)}, "8f990ba0b577b51cf009ea049368c16bbda1b21e1b93be07a824758bb253c39b"},
	}
	for _, tt := range tests {
		tmpl := keytmpl.MustParse(tt.src)
		got, err := tmpl.Key(values(tt.values...))
		check(t, err == nil && got == tt.want, "Key(%.99q) = %q, %v; want %q", tt.values, got, err, tt.want)
		several := make([][]string, len(tt.values))
		for i, v := range tt.values {
			several[i] = []string{v}
		}
		keys, err := tmpl.Keys(lists(several...))
		check(t, err == nil && len(keys) == 1 && keys[0] == tt.want, "Keys(%.99q) = %q, %v; want the same one", tt.values, keys, err)
	}
}

func TestKeysMakesOneKeyPerElement(t *testing.T) {
	ids := []string{"b", "a", "b", "c"}
	for _, tt := range []struct {
		src    string
		values [][]string
		want   []string
	}{
		{"m:{m[*].id}", [][]string{ids}, []string{"m:a", "m:b", "m:c"}},
		{"{g}:{m[*]}:{x}", [][]string{{"g:1"}, {"2", ":"}, {"y"}}, []string{"g%3A1:%3A:y", "g%3A1:2:y"}},
		{"{m[*]|hash}", [][]string{{"hello", "hello"}}, []string{"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}},
	} {
		got, err := keytmpl.MustParse(tt.src).Keys(lists(tt.values...))
		check(t, err == nil && slices.Equal(got, tt.want), "%s: keys %q, %v; want %q", tt.src, got, err, tt.want)
	}
	check(t, slices.Equal(ids, []string{"b", "a", "b", "c"}), "the caller's list is now %q", ids)
}

func TestValueErrors(t *testing.T) {
	long := strings.Repeat("x", 513)
	errLookup := errors.New("no such header")
	key := func(v ...string) func(*keytmpl.Template) error {
		return func(tmpl *keytmpl.Template) error { return checktest.ErrorOf(tmpl.Key(values(v...))) }
	}
	keys := func(v ...[]string) func(*keytmpl.Template) error {
		return func(tmpl *keytmpl.Template) error { return checktest.ErrorOf(tmpl.Keys(lists(v...))) }
	}
	failing := func(tmpl *keytmpl.Template) error {
		return checktest.ErrorOf(tmpl.Key(func(i int) (string, error) { return "x", []error{nil, errLookup}[i] }))
	}
	failingKeys := func(tmpl *keytmpl.Template) error {
		return checktest.ErrorOf(tmpl.Keys(func(int) ([]string, error) { return nil, errLookup }))
	}
	tests := []struct {
		what, src   string
		render      func(*keytmpl.Template) error
		is          error
		placeholder string
		element     int
	}{
		{"empty value", "{a}:{b}", key("x", ""), keytmpl.ErrMissingValue, "{b}", -1},
		{"lookup fails", "{a}:{b}", failing, errLookup, "{b}", -1},
		{"lookup fails in Keys", "{a}:{b[*]}", failingKeys, errLookup, "{a}", -1},
		{"Key with a list", "{a}:{b[*]}", key("x", "y"), keytmpl.ErrManyValues, "{b[*]}", -1},
		{"value too long", "u:{a}", key(long), keytmpl.ErrTooLong, "{a}", -1},
		{"too long by the text behind", "{a}:u", key(long[:511]), keytmpl.ErrTooLong, "{a}", -1},
		{"too long once escaped", "{a}", key(strings.Repeat(":", 171)), keytmpl.ErrTooLong, "{a}", -1},
		{"too long together", "{a}:{b}:{c}", key("x", long[:400], long[:200]), keytmpl.ErrTooLong, "{b}", -1},
		{"no value", "{a}:{b[*]}", keys(nil, []string{"x"}), keytmpl.ErrMissingValue, "{a}", -1},
		{"two values", "{a}:{b[*]}", keys([]string{"x", "y"}, nil), keytmpl.ErrManyValues, "{a}", -1},
		{"empty value in Keys", "{a}:{b[*]}", keys([]string{""}, []string{"x"}), keytmpl.ErrMissingValue, "{a}", -1},
		{"too long in Keys", "{a}x", keys([]string{long[:512]}), keytmpl.ErrTooLong, "{a}", -1},
		{"empty list", "{b[*]}", keys(nil), keytmpl.ErrMissingValue, "{b[*]}", -1},
		{"empty element", "{b[*]}", keys([]string{"x", ""}), keytmpl.ErrMissingValue, "{b[*]}", 1},
		{"long element", "{b[*]}", keys([]string{"x", "y", long}), keytmpl.ErrTooLong, "{b[*]}", 2},
		{"long key of an element", "{b[*]}:{a}", keys([]string{"y", long[:300]}, []string{long[:250]}), keytmpl.ErrTooLong, "{b[*]}", 1},
		{"long value beside elements", "{b[*]}:{a}", keys([]string{"y"}, []string{long[:511]}), keytmpl.ErrTooLong, "{a}", -1},
		{"many elements", "{b[*]}", keys(make([]string, keytmpl.MaxKeys+1)), keytmpl.ErrTooManyKeys, "{b[*]}", -1},
	}
	sentinels := []error{keytmpl.ErrMissingValue, keytmpl.ErrManyValues, keytmpl.ErrTooLong, keytmpl.ErrTooManyKeys, errLookup}
	for _, tt := range tests {
		err := tt.render(keytmpl.MustParse(tt.src))
		for _, s := range sentinels {
			if errors.Is(err, s) != (s == tt.is) {
				t.Errorf("%s: errors.Is(%v, %v) = %v", tt.what, err, s, !(s == tt.is))
			}
		}
		var ve *keytmpl.ValueError
		if !errors.As(err, &ve) || strings.Contains(err.Error(), "xxx") {
			t.Fatalf("%s: got %v, want a ValueError without the value", tt.what, err)
		}
		if ve.Template != tt.src || ve.Placeholder.String() != tt.placeholder || ve.Element != tt.element || ve.Placeholder.Pos != strings.Index(tt.src, tt.placeholder) {
			t.Errorf("%s: error is about element %d of %v in %q, at %d", tt.what, ve.Element, ve.Placeholder, ve.Template, ve.Placeholder.Pos)
		}
	}
}

func TestKeysAcceptsMaxKeysElements(t *testing.T) {
	ids := make([]string, keytmpl.MaxKeys)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	keys, err := keytmpl.MustParse("m:{m[*]}").Keys(lists(ids))
	check(t, err == nil && len(keys) == keytmpl.MaxKeys, "%d keys, %v", len(keys), err)
}

func TestZeroTemplateRendersNoKey(t *testing.T) {
	var zero keytmpl.Template
	if key, err := zero.Key(nil); key != "" || !errors.Is(err, keytmpl.ErrMissingValue) {
		t.Errorf("Key = %q, %v", key, err)
	}
	if keys, err := zero.Keys(nil); keys != nil || !errors.Is(err, keytmpl.ErrMissingValue) {
		t.Errorf("Keys = %q, %v", keys, err)
	}
	if zero.Multiple() || zero.String() != "" || len(zero.Placeholders()) != 0 {
		t.Error("the zero Template is not empty")
	}
}

func TestHugeValueIsRefusedBeforeItIsEscaped(t *testing.T) {
	tmpl := keytmpl.MustParse("{a}")
	value := values(strings.Repeat(":", 1<<20)) // three megabytes once escaped
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := tmpl.Key(value)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, keytmpl.ErrTooLong) {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<19 {
		t.Errorf("allocated %d bytes to refuse a value", n)
	}
}

func TestKeyAllocatesOnlyTheKey(t *testing.T) {
	tmpl := keytmpl.MustParse("user:status:{user_id}")
	value := values("42")
	n := testing.AllocsPerRun(100, func() { _, _ = tmpl.Key(value) })
	check(t, n <= 1, "%v allocations", n)
}

func TestErrorNamesTheElement(t *testing.T) {
	_, err := keytmpl.MustParse("g:{m[*].id}").Keys(lists([]string{"a", ""}))
	check(t, errors.Is(err, keytmpl.ErrMissingValue) && strings.Contains(err.Error(), "element 1"), "%v does not name the element", err)
	_, err = keytmpl.MustParse("b:{body}").Key(values(strings.Repeat("x", 600)))
	check(t, errors.Is(err, keytmpl.ErrTooLong) && !strings.Contains(err.Error(), "element") && strings.Contains(err.Error(), "{body|hash}"), "%v does not say what would help", err)
}

func BenchmarkKey(b *testing.B) {
	for _, bench := range []struct {
		name, src string
		values    []string
	}{
		{"constant", "nightly-report", nil},
		{"one", "user:status:{user_id}", []string{"8f14e45f"}},
		{"two", "group:{group.id}:{metadata.x-tenant}", []string{"7c9e6679", "acme"}},
		{"unicode", "user:{name}", []string{"Jürgen Müller"}},
		{"escaped", "{a}:{b}", []string{"2024-05-01T10:00:00", "a:b"}},
		{"hash1k", "import:{body|hash}", []string{strings.Repeat("x", 1<<10)}},
	} {
		tmpl := keytmpl.MustParse(bench.src)
		value := values(bench.values...)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Key(value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
