package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// examineTables says whether the account may write each table. It tries: what the catalog says of roles and
// inherited grants is different in each database. The statements change no row, but the database checks the
// account before it looks for one.
func (s *Store) examineTables(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, opTimeout) // somebody may have locked a table
	defer cancel()
	f := driver.Finding{About: "tables", Found: "may be written"}
	var denied []string
	var first error
	for _, t := range tables {
		var verbs []string
		for _, w := range s.harmless(t) {
			err := s.exec(ctx, w.text)
			if err != nil && judge(err) != refused { // the same for all of them
				f.Found, f.Risk, f.Advice = "", failure("examine", "", err).Error(), "see docs/operations-sql.md"
				return f
			}
			if err != nil {
				first, verbs = cmp.Or(first, err), append(verbs, w.verb)
			}
		}
		if len(verbs) > 0 {
			denied = append(denied, fmt.Sprintf("%s on %s%s", strings.Join(verbs, ", "), s.cfg.prefix, t.name))
		}
	}
	if first != nil {
		f.Found, f.Risk = "", fmt.Sprintf("the account may not %s (%v)", strings.Join(denied, "; "), first)
		f.Advice = "grant it what is missing, unless it only inspects: see Tables in docs/operations-sql.md"
	}
	return f
}

// write is a statement with the permission that it needs.
type write struct{ verb, text string }

// harmless returns statements that need each permission to write a table, and change nothing.
func (s *Store) harmless(t table) []write {
	name, columns := s.prefix+t.name, strings.Join(t.names(), ", ")
	return []write{
		{"INSERT", fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE 1 = 0", name, columns, columns, name)},
		{"UPDATE", fmt.Sprintf("UPDATE %s SET until = until WHERE 1 = 0", name)}, // each table has that column
		{"DELETE", fmt.Sprintf("DELETE FROM %s WHERE 1 = 0", name)},
	}
}
