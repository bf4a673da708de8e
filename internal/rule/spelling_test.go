package rule_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/store/memstore"
)

// Every middleware's templates have |nfc, as all of them are compiled here.
func TestTextHasOneNormalForm(t *testing.T) {
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	keys := func(template string) (of []string, err error) {
		t.Helper()
		r, err := rule.Compile(engine(t, memstore.New()), rule.Spec[string]{Name: "n", Template: template, Once: true}, bind)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{composed, decomposed} {
			k, err := r.Keys(value)
			if err != nil {
				return nil, err
			}
			of = append(of, k.First)
		}
		_, err = r.Keys("cafe\xcc") // cut in the middle of the accent
		return of, err
	}
	if of, err := keys("u:{name}"); err != nil || of[0] == of[1] {
		t.Errorf("%q, %v: there is no difference to make up for", of, err)
	}
	for template, want := range map[string]string{"u:{name|nfc}": "u:" + composed, "u:{name|nfc|lower}": "u:" + composed} {
		if of, err := keys(template); len(of) != 2 || of[0] != want || of[1] != want || !errors.Is(err, keytmpl.ErrNotText) {
			t.Errorf("%s: %q, %v", template, of, err)
		}
	}
	if of, err := keys("u:{name|nfc|hash}"); len(of) != 2 || of[0] != of[1] || !errors.Is(err, keytmpl.ErrNotText) {
		t.Errorf("digests: %q, %v", of, err)
	}
}

// What a rule is checked with at start must get through each filter.
func TestTemplatesWithFiltersAreChecked(t *testing.T) {
	spec := rule.Spec[string]{Name: "n", Template: "m:{m[*]|int}"}
	if _, err := rule.Compile(engine(t, unable{memstore.New()}), spec, bind); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a set, which the store can't do: %v", err)
	}
	if _, err := rule.Compile(engine(t, able{memstore.New()}), spec, bind); err != nil {
		t.Error(err)
	}
}
