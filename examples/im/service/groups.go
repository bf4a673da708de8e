package service

import (
	"context"
	"slices"

	"github.com/keyturn/keyturn/examples/im/db"
	"github.com/keyturn/keyturn/examples/im/impb"
)

// Capacity is how many members a group may have.
const Capacity = 5

type groups struct {
	impb.UnimplementedGroupsServer
	db *db.DB
}

// Join checks and then acts. Without a lock, two calls for one group at a time could both find
// the last seat free, or the same user not in the group yet.
func (s *groups) Join(ctx context.Context, req *impb.JoinRequest) (*impb.JoinResponse, error) {
	members, err := s.db.Members(ctx, req.GetGroupId())
	if err != nil {
		return nil, err
	}
	if slices.Contains(members, req.GetUserId()) {
		return &impb.JoinResponse{}, nil
	}
	if len(members) >= Capacity {
		return &impb.JoinResponse{Full: true}, nil
	}
	if err := s.db.AddMember(ctx, req.GetGroupId(), req.GetUserId()); err != nil {
		return nil, err
	}
	return &impb.JoinResponse{}, nil
}

// Leave checks and then acts as well. Without a lock, it would undo a Join in between.
func (s *groups) Leave(ctx context.Context, req *impb.LeaveRequest) (*impb.LeaveResponse, error) {
	members, err := s.db.Members(ctx, req.GetGroupId())
	if err != nil {
		return nil, err
	}
	if slices.Contains(members, req.GetUserId()) {
		if err := s.db.RemoveMember(ctx, req.GetGroupId(), req.GetUserId()); err != nil {
			return nil, err
		}
	}
	return &impb.LeaveResponse{}, nil
}
