package driver_test

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
)

func TestConfigure(t *testing.T) {
	type config struct{ set []string }
	type option func(*config) error
	errBad := errors.New("bad")
	set := func(name string, err error) option {
		return func(c *config) error {
			c.set = append(c.set, name)
			return err
		}
	}
	var c config
	errs := driver.Configure(&c, "Open", []option{set("a", nil), nil, set("b", errBad), set("c", nil)})
	var none *driver.OptionError
	if len(errs) != 2 || !errors.As(errs[0], &none) || none.Option != "Open" || !errors.Is(errs[1], errBad) {
		t.Errorf("got %v", errs)
	}
	if len(c.set) != 3 {
		t.Errorf("an error keeps later options from being checked: %v", c.set)
	}
	if errs := driver.Configure(&c, "Open", []option{set("a", nil)}); errs != nil {
		t.Error(errs)
	}
}
