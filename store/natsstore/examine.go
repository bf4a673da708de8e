package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// examine implements [driver.Description].Examine: the bucket, and what of its settings costs leases.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	all, err := casstore.Call(ctx, &s.ops, "examine", "", func(ctx context.Context) ([]driver.Finding, error) {
		st, err := s.bucket.ask(ctx)
		if err != nil {
			return nil, err
		}
		info := st.CachedInfo()
		server := driver.Finding{About: "server", Found: s.nc.ConnectedServerName() + " " + s.nc.ConnectedServerVersion()}
		return []driver.Finding{server, s.examineMessages(ctx), examineReplicas(info), examineStorage(info)}, nil
	})
	var settings *settingsError
	switch {
	case errors.As(err, &settings):
		return []driver.Finding{{About: "bucket", Risk: err.Error(), Advice: "change the settings, or choose another bucket (WithBucket)"}}
	case err != nil:
		return []driver.Finding{{About: "bucket", Risk: err.Error(), Advice: "bring the servers back, and let this user use JetStream and the subject keyturn.>"}}
	}
	return all
}

func (s *Store) examineMessages(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.inbox.hears(ctx) {
		return driver.Finding{About: "messages", Found: "arrive"}
	}
	return driver.Finding{
		About: "messages", Found: "do not arrive",
		Risk:   "the waiters of this user, and the next behind it, ask every " + deafPause.String() + ", which slows down all",
		Advice: "let the user publish to, and subscribe to, keyturn." + s.cfg.bucket + ".>",
	}
}

func examineReplicas(info *jetstream.StreamInfo) driver.Finding {
	f := driver.Finding{About: "replicas", Found: fmt.Sprint(info.Config.Replicas)}
	if info.Config.Replicas < 3 {
		f.Risk = "locks are not granted while the server of the bucket is away"
		f.Advice = "with three or more servers: nats stream edit --replicas 3"
	}
	return f
}

func examineStorage(info *jetstream.StreamInfo) driver.Finding {
	f := driver.Finding{About: "storage", Found: info.Config.Storage.String()}
	if info.Config.Storage == jetstream.MemoryStorage {
		f.Risk = "a restart of the servers loses all locks and records"
		f.Advice = "use file storage, with sync_interval: always where a power failure must not cost leases"
	}
	return f
}
