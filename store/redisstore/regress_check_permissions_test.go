package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
)

// A check was content with a user who could hold leases, and lacked a command that is needed once
// somebody waits.
func TestCheckMissesEveryCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, command := range strings.Fields(aclCommands) {
		server.Client().ScriptFlush(context.Background())
		s := open(t, as(t, server, aclKeys, aclChannels, aclCommands, aclMessages, "+info", strings.Replace(command, "+", "-", 1)))
		err := s.Check(within(t, 30*time.Second))
		if got := found(t, err); !slices.Equal(got, []string{"locks"}) || !strings.Contains(err.Error(), "see Permissions") {
			t.Errorf("without %s: found %q: %v", command, got, err)
		}
		_ = s.Close()
		server.Client().FlushAll(context.Background())
	}
}
