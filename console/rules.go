package console

import (
	"net/http"

	"github.com/keyturn/keyturn/core/coverage"
)

// ruleTable shows which rules guard what, in the program in which the console is mounted.
func (c *Console) ruleTable(*http.Request, look) any { return c.cfg.rules() }

// ruleText is a rule in words, such as "serialize group:{id}".
func ruleText(r coverage.Rule) string {
	r.Problem = "" // it has a place of its own
	return r.String()
}
