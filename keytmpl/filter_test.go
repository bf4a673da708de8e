package keytmpl_test

import (
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keyturn/keyturn/keytmpl"
)

var number = regexp.MustCompile(`^[+-]?([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// wholeNumber is |int by other means, for what a test can afford to write out.
func wholeNumber(value string) (string, bool) {
	if !number.MatchString(value) {
		return "", false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(value), "e")
	zero := strings.Trim(mantissa, "+-0.") == ""
	if n, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-")); zero || err != nil || n > 5000 {
		return "0", zero
	}
	n, ok := new(big.Rat).SetString(value)
	if !ok || !n.IsInt() || len(new(big.Int).Abs(n.Num()).String()) > 80 {
		return "", false
	}
	return n.Num().String(), true
}

// spelled is what the filters make of a tuple; nil if they refuse one of its values.
func spelled(t *testing.T, tmpl *keytmpl.Template, tuple []string) []string {
	t.Helper()
	out := make([]string, len(tuple))
	for i, p := range tmpl.Placeholders() {
		out[i] = tuple[i]
		for _, name := range p.Filters {
			ok := true
			switch name {
			case "int":
				out[i], ok = wholeNumber(out[i])
			case "lower":
				ok, out[i] = utf8.ValidString(out[i]), strings.ToLower(out[i])
			default:
				t.Fatalf("what does |%s do?", name)
			}
			if !ok {
				return nil
			}
		}
	}
	return out
}

func TestLowerHasOneCase(t *testing.T) {
	tmpl := keytmpl.MustParse("u:{a|lower}")
	for value, want := range map[string]string{
		"Ann@Example.COM": "u:ann@example.com", "ÉTÉ": "u:été", "ΣΑΣ": "u:σασ", "ß": "u:ß", "ẞ": "u:ß", "K": "u:k", "A:B": "u:a%3Ab",
	} {
		if key, err := tmpl.Key(values(value)); key != want || err != nil {
			t.Errorf("%q becomes %q, %v; want %q", value, key, err, want)
		}
	}
	// Replaced by U+FFFD, as strings.ToLower does it, all of these would be one key.
	for _, value := range []string{"a\xff", "a\xfe", "\xc3"} {
		if key, err := tmpl.Key(values(value)); !errors.Is(err, keytmpl.ErrNotText) {
			t.Errorf("%q becomes %q, %v", value, key, err)
		}
	}
}

func TestFiltersApplyInOrderAndBeforeTheDigest(t *testing.T) {
	for src, want := range map[string]string{"{a|cut|lower}": "b", "{a|lower|cut}": "bx"} {
		if key, err := keytmpl.MustParse(src).Key(values("BX")); key != want || err != nil {
			t.Errorf("%s: %q, %v", src, key, err)
		}
	}
	plain, _ := keytmpl.MustParse("{a|hash}").Key(values("b"))
	if key, err := keytmpl.MustParse("{a|cut|lower|hash}").Key(values("BX")); key != plain || err != nil {
		t.Errorf("the digest is %q, %v; want that of the lower case, %q", key, err, plain)
	}
	if key, err := keytmpl.MustParse("{a|cut|int}").Key(values("X")); !errors.Is(err, keytmpl.ErrMissingValue) {
		t.Errorf("what a filter left nothing of is %q, %v", key, err)
	}
	keys, err := keytmpl.MustParse("m:{m[*]|int}").Keys(lists([]string{"1", "1.0", "2"}))
	check(t, err == nil && len(keys) == 2, "keys %q, %v", keys, err)
	_, err = keytmpl.MustParse("m:{m[*]|int}").Keys(lists([]string{"1", "x"}))
	var refused *keytmpl.ValueError
	check(t, errors.As(err, &refused) && refused.Element == 1 && refused.Placeholder.Pos == 2 && errors.Is(err, keytmpl.ErrNotInteger), "%v, want one about element 1 of the placeholder at byte 2", err)
}

func TestHugeValueIsRefusedBeforeItIsFiltered(t *testing.T) {
	applied = false
	if _, err := keytmpl.MustParse("{a|note}").Key(values(strings.Repeat("x", 1<<20))); !errors.Is(err, keytmpl.ErrTooLong) || applied {
		t.Errorf("%v, filtered: %v", err, applied)
	}
	if _, err := keytmpl.MustParse("{a|note|hash}").Key(values(strings.Repeat("x", 1<<20))); err != nil || !applied {
		t.Errorf("%v, filtered: %v", err, applied)
	}
}

// FuzzInt: a number has one spelling.
func FuzzInt(f *testing.F) {
	for _, v := range []string{
		"5", "5.0", "5e0", "5E0", "50e-1", "0.5e1", "0.005E+3", "+5", "05", "5.000", "-5", "-5.0", "-0.5e1", "-05", "00.10E+2",
		"0", "-0", "0.0", "-0.0e7", "0e999999999999999999999", "+0", "1000", "1e3", "1.000e3", "10E2", "1e79", "10e78",
		"9007199254740993", "9007199254740993.0", "9.007199254740993e15", // 2^53 + 1
		"5.5", "1e400", "1e80", "5e-1", "1e9999999999999999999", "1e-9999999999999999999", "1e1073741825",
		"x", "-", "+", ".", "5.", ".5", "5e", "e5", "5e+", "--5", "+-5", "5 ", " 5", "0x5", "0x1p4", "1_000", "5/1", "1/1", "5e5e5", "5e+-5",
		"0e18700000000000000000A", "5.0.0", "1.e3", "\u0665", "true", "NaN",
	} {
		f.Add(v)
	}
	tmpl := keytmpl.MustParse("{a|int}")
	if key, err := tmpl.Key(values("9.007199254740993e15")); key != "9007199254740993" || err != nil {
		f.Errorf("%s, %v", key, err)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if v == "" || len(v) > 500 {
			t.Skip()
		}
		key, err := tmpl.Key(values(v))
		want, ok := wholeNumber(v)
		if ok != (err == nil) || ok == errors.Is(err, keytmpl.ErrNotInteger) || ok && key != want || !ok && key != "" {
			t.Errorf("%q becomes %q, %v; want %q, %v", v, key, err, want, ok)
		}
		if again, err := tmpl.Key(values(key)); ok && (again != key || err != nil) {
			t.Errorf("%q becomes %q, which becomes %q, %v", v, key, again, err)
		}
	})
}

var applied bool

func init() {
	keytmpl.Register(&keytmpl.Filter{Name: "cut", Apply: func(v string) (string, error) { return strings.TrimSuffix(v, "X"), nil }})
	keytmpl.Register(&keytmpl.Filter{Name: "note", Apply: func(string) (string, error) { applied = true; return "short", nil }})
}

func TestRegisterRefuses(t *testing.T) {
	same := func(v string) (string, error) { return v, nil }
	for what, f := range map[string]*keytmpl.Filter{
		"nothing":            nil,
		"no Apply":           {Name: "new"},
		"no name":            {Apply: same},
		"a bar in the name":  {Name: "a|b", Apply: same},
		"a name of its own":  {Name: "hash", Apply: same},
		"a built-in's name":  {Name: "lower", Apply: same},
		"a registered name":  {Name: "cut", Apply: same},
		"a name with spaces": {Name: "a b", Apply: same},
	} {
		func() {
			defer func() {
				said, _ := recover().(string)
				check(t, strings.HasPrefix(said, "keytmpl: Register: "), "%s: %q", what, said)
			}()
			keytmpl.Register(f)
		}()
	}
	if _, err := keytmpl.Parse("{a|new}"); err == nil {
		t.Error("a refused filter can be used")
	}
}
