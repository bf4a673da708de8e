package httprule

import (
	"errors"

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
	}
	var err error
	joint.rule, err = rule.Join(r.rule, other.rule)
	return joint, err
}
