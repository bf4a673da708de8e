package nfc_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/keytmpl"
	_ "github.com/keyturn/keyturn/keytmpl/nfc"
	"github.com/keyturn/keyturn/store/memstore"
)

var must = checktest.Must

const composed, decomposed = "caf\u00e9", "cafe\u0301"

func TestTextHasOneNormalForm(t *testing.T) {
	keys := keysOf(t)
	if of, err := keys("u:{name}"); err != nil || of[0] == of[1] {
		t.Errorf("%q, %v: there is no difference to make up for", of, err)
	}
	for _, template := range []string{"u:{name|nfc}", "u:{name|nfc|lower}"} {
		if of, err := keys(template); len(of) != 2 || of[0] != "u:"+composed || of[1] != of[0] || !errors.Is(err, keytmpl.ErrNotText) {
			t.Errorf("%s: %q, %v", template, of, err)
		}
	}
	if of, err := keys("u:{name|nfc|hash}"); len(of) != 2 || of[0] != of[1] || !errors.Is(err, keytmpl.ErrNotText) {
		t.Errorf("digests: %q, %v", of, err)
	}
}

// keysOf returns a function that gives the keys which a middleware's rule makes of both
// spellings, and the error that it makes of a spelling cut in the middle of the accent.
func keysOf(t *testing.T) func(template string) (of []string, err error) {
	eng := ruletest.NewEngine(t, memstore.New())
	itself := func(keytmpl.Placeholder) (rule.Source[string], error) {
		return rule.Source[string]{One: func(r string) (string, error) { return r, nil }}, nil
	}
	return func(template string) (of []string, err error) {
		r, err := rule.Compile(eng, rule.Spec[string]{Name: "n", Template: template}, itself)
		must(t, err)
		for _, value := range []string{composed, decomposed} {
			k, err := r.Keys(t.Context(), value)
			if err != nil {
				return nil, err
			}
			of = append(of, k.First)
		}
		_, err = r.Keys(t.Context(), "cafe\xcc")
		return of, err
	}
}
