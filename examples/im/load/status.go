package load

import (
	"context"
	"fmt"
	"net/http"
)

// A few users have several devices each. The devices reach the service through different
// gateways, and all keep reporting a status.
const (
	hotUsers = 4
	devices  = 6  // per user
	updates  = 15 // per device

	// StatusUpdates is the number of all updates.
	StatusUpdates = hotUsers * devices * updates
)

func playStatus(ctx context.Context, c *client, to Target, sum *Figures) error {
	err := parallel(ctx, hotUsers*devices, func(ctx context.Context, i int) error {
		device := fmt.Sprintf("device-%d", i/hotUsers)
		path := "/users/" + hotUser(i%hotUsers) + "/status"
		for n := range updates {
			// A device sends one update after the other, and none twice. So a lost update was
			// overwritten.
			body := map[string]string{"device": device, "status": fmt.Sprintf("typing %d", n)}
			if err := c.do(ctx, i/hotUsers, http.MethodPut, path, body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range hotUsers {
		user, err := to.DB.User(ctx, hotUser(i))
		if err != nil {
			return err
		}
		sum.StatusLostUpdates += max(0, devices*updates-int(user.Revision))
	}
	return nil
}

func hotUser(i int) string { return fmt.Sprintf("hot-%d", i) }
