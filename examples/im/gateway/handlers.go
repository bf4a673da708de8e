package gateway

import (
	"crypto/rand"
	"net/http"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/examples/im/delivery"
	"github.com/keyturn/keyturn/examples/im/impb"
)

type handlers struct {
	users  impb.UsersClient
	groups impb.GroupsClient
	tasks  *asynq.Client
	queue  string
}

// setStatus stores the status that a device reports for its user.
func (h *handlers) setStatus(c echo.Context) error {
	var body struct{ Device, Status string }
	if err := c.Bind(&body); err != nil {
		return err
	}
	_, err := h.users.SetStatus(c.Request().Context(), &impb.SetStatusRequest{
		UserId: c.Param("id"),
		Device: body.Device,
		Status: body.Status,
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// join makes a user a member of a group, if there is a seat.
func (h *handlers) join(c echo.Context) error {
	joined, err := h.groups.Join(c.Request().Context(), &impb.JoinRequest{
		GroupId: c.Param("id"),
		UserId:  c.Param("user"),
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]bool{"full": joined.GetFull()})
}

// leave ends a membership.
func (h *handlers) leave(c echo.Context) error {
	_, err := h.groups.Leave(c.Request().Context(), &impb.LeaveRequest{
		GroupId: c.Param("id"),
		UserId:  c.Param("user"),
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// deliver enqueues a message. The other gateway enqueues the same message. Neither knows of the
// other, so each delivery has an id of its own.
func (h *handlers) deliver(c echo.Context) error {
	var m delivery.Message
	if err := c.Bind(&m); err != nil {
		return err
	}
	task, err := delivery.NewTask(c.Request().Context(), m)
	if err != nil {
		return err
	}
	_, err = h.tasks.EnqueueContext(c.Request().Context(), task, asynq.Queue(h.queue), asynq.TaskID(rand.Text()))
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}
