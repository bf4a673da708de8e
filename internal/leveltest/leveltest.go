package leveltest

import (
	"context"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/core"
)

// Template makes the keys of the requests.
const Template = "group:{%s}/member:{%s}"

// Run sends requests about a member of a group. request sends one and returns the claims that
// its handler runs under, or nothing if it was refused because a key is held. Its rule must use
// Template, core.WithHierarchy, core.WithFailFast and eng.
func Run(t *testing.T, eng *core.Engine, request func(group, member string) []core.Claim) {
	t.Helper()
	while := func(held []core.Claim, group, member string, want ...core.Claim) {
		t.Helper()
		if held != nil {
			lease, err := eng.AcquireAll(context.Background(), held)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		}
		if got := request(group, member); !slices.Equal(got, want) {
			t.Errorf("while %v is held, member %s of group %s gets %v, want %v", held, member, group, got, want)
		}
	}
	one := core.Under("group:7", "member:1")
	while(nil, "7", "1", one...)
	while(one, "7", "1")
	while(one, "7", "2", core.Under("group:7", "member:2")...)
	while(one, "8", "1", core.Under("group:8", "member:1")...)
	whole := []core.Claim{core.Exclusive("group:7")}
	while(whole, "7", "1")
	while(whole, "8", "1", core.Under("group:8", "member:1")...)
	// A slash in a value adds no level to the key.
	while(one, "7/member:1", "1", core.Under("group:7%2Fmember%3A1", "member:1")...)
	while(whole, "7/", "1", core.Under("group:7%2F", "member:1")...)
}
