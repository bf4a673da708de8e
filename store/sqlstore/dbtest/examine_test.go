package dbtest

import (
	"slices"
	"testing"

	"github.com/keyturn/keyturn/store/storeurl"
)

// Examine shows the settings of a SQLite connection, and what is wrong with them. Those of servers are in
// TestWarnsOfSettings.
func TestExamineSQLite(t *testing.T) {
	t.Parallel()
	for params, want := range map[string][]string{"": nil, "?synchronous=off": {"synchronous"}} {
		u, err := storeurl.Parse("sqlite:" + t.TempDir() + "/a.db" + params)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := u.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var risks []string
		for _, f := range s.Describe().Examine(t.Context()) {
			if f.Found == "" {
				t.Errorf("%s can't be read", f.About)
			}
			if f.Risk != "" {
				risks = append(risks, f.About)
			}
		}
		if !slices.Equal(risks, want) {
			t.Errorf("%q: %q, want %q", params, risks, want)
		}
	}
}
