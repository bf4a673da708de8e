package keytmpl_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/keytmpl"
)

// applied says that |note has been given a value.
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
				if said, _ := recover().(string); !strings.HasPrefix(said, "keytmpl: Register: ") {
					t.Errorf("%s: %q", what, said)
				}
			}()
			keytmpl.Register(f)
		}()
	}
	if _, err := keytmpl.Parse("{a|new}"); err == nil {
		t.Error("a refused filter can be used")
	}
}
