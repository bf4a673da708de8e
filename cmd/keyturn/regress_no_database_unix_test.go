//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
)

// Without its database, init ended with the status of a bug, and other commands told of missing tables.
func TestInitWithoutADatabase(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for name, store := range map[string]string{
		"postgres": "postgres://keyturn@" + sqltest.StartPostgres(t).Addr() + "/nosuch?sslmode=disable",
		"mysql":    "mysql://root@" + sqltest.StartMySQL(t).Addr() + "/nosuch",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sub := range []string{"init", "ls"} {
				p := command(t, "--store", store, sub).ends(78)
				text := p.stderr.String()
				if !strings.Contains(text, "no such database") || !strings.Contains(text, "nosuch") || strings.Contains(text, "keyturn init") {
					t.Errorf("%s: %s", sub, text)
				}
			}
		})
	}
}
