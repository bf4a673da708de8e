package httprule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/core"
)

// Problem says which of the rule's placeholders a route can't fill, as it has the
// parameters params and no others; "" if all is well.
func (r *Rule) Problem(params []string) string {
	var missing []string
	for _, name := range r.params {
		if p := "{path." + name + "}"; !slices.Contains(params, name) && !slices.Contains(missing, p) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	has := "none"
	if len(params) > 0 {
		has = strings.Join(params, ", ")
	}
	return strings.Join(missing, ", ") + ": the route has no such parameter, it has " + has
}

// Check joins the problems of all routes. Package is in whose words errors
// speak.
func Check(pkg string, all []core.Coverage) error {
	var errs []error
	for _, c := range all {
		for _, r := range c.Rules {
			if r.Problem != "" {
				errs = append(errs, fmt.Errorf("%s: route %q: rule %q: %s", pkg, c.Target, r.Key, r.Problem))
			}
		}
	}
	return errors.Join(errs...)
}
