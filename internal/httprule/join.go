package httprule

import (
	"errors"
	"net/http"

	"github.com/keyturn/keyturn/internal/rule"
)

// Join makes one rule of two of [Serialize] that cover the same requests: their keys are one set, see
// [rule.Join]. A body has to satisfy both limits. The two describe themselves to reports (Covers,
// Problem); the joint rule does not.
func (r *Rule) Join(other *Rule) (*Rule, error) {
	if r.streamBody != other.streamBody {
		return nil, errors.New("several rules are one set: want StreamBody for all of them or for none")
	}
	joint := &Rule{
		bodyLimit:  min(r.bodyLimit, other.bodyLimit),
		streamBody: r.streamBody,
		route:      r.route,
		precheck:   both(r.precheck, other.precheck),
	}
	var err error
	joint.rule, err = rule.Join(r.rule, other.rule)
	return joint, err
}

// both asks two prechecks; nil: none.
func both(first, second func(*http.Request) error) func(*http.Request) error {
	if first == nil {
		return second
	}
	if second == nil {
		return first
	}
	return func(req *http.Request) error {
		if err := first(req); err != nil {
			return err
		}
		return second(req)
	}
}
