package console

import (
	"net/http"

	"github.com/keyturn/keyturn/core/coverage"
)

type targetModel struct {
	Name  string
	Rules []ruleModel
}

type ruleModel struct {
	Text string // "serialize group:{id}"
	Info coverage.Rule
}

// ruleTable shows which rules guard what, in the program in which the console is mounted.
func (c *Console) ruleTable(*http.Request, look) any {
	var all []targetModel
	for _, t := range c.cfg.rules() {
		m := targetModel{Name: t.Name}
		for _, r := range t.Rules {
			plain := r
			plain.Problem = "" // it has a place of its own
			m.Rules = append(m.Rules, ruleModel{plain.String(), r})
		}
		all = append(all, m)
	}
	return all
}
