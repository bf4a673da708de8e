package rule_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/store/memstore"
)

// The values with which a rule is checked at the start must get through each filter.
func TestTemplatesWithFiltersAreChecked(t *testing.T) {
	spec := rule.Spec[string]{Name: "n", Template: "m:{m[*]|int}"}
	if _, err := rule.Compile(engine(t, unable{memstore.New()}), spec, bind); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a set, which the store can't do: %v", err)
	}
	if _, err := rule.Compile(engine(t, able{memstore.New()}), spec, bind); err != nil {
		t.Error(err)
	}
}
