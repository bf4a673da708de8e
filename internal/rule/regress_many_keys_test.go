package rule_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/rule"
	"github.com/keyturn/keyturn/store/memstore"
)

// How many keys a function returns may depend on the request. More than a set may have were an error of
// the server's, with a line in the log for each.
func TestMoreKeysThanASetMayHave(t *testing.T) {
	r, err := rule.Compile(engine(t, memstore.New()), rule.Spec[int]{Name: "many", Keys: func(n int) (keys []string, err error) {
		for i := range n {
			keys = append(keys, strconv.Itoa(i))
		}
		return keys, nil
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Keys(driver.MaxClaims); err != nil {
		t.Errorf("%d keys: %v", driver.MaxClaims, err)
	}
	if _, err := r.Keys(driver.MaxClaims + 1); !errors.Is(err, core.ErrInvalidKey) {
		t.Errorf("%d keys: %v, want ErrInvalidKey", driver.MaxClaims+1, err)
	}
}
