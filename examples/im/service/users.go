package service

import (
	"context"

	"github.com/keyturn/keyturn/examples/im/db"
	"github.com/keyturn/keyturn/examples/im/impb"
)

type users struct {
	impb.UnimplementedUsersServer
	db *db.DB
}

// SetStatus reads, changes and writes back. Without a lock, the second of two calls for one
// user would overwrite what the first has just written.
func (s *users) SetStatus(ctx context.Context, req *impb.SetStatusRequest) (*impb.SetStatusResponse, error) {
	user, err := s.db.User(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	user.Devices[req.GetDevice()] = req.GetStatus()
	user.Revision++
	if err := s.db.PutUser(ctx, req.GetUserId(), user); err != nil {
		return nil, err
	}
	return &impb.SetStatusResponse{Revision: user.Revision}, nil
}
