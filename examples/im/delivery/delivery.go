// Package delivery has what gateways and services share about messages.
package delivery

import (
	"context"
	"encoding/json"

	"github.com/hibiken/asynq"

	"github.com/keyturn/keyturn/middleware/asynq"
)

// Type is the asynq task type of a delivery.
const Type = "message:deliver"

// Message is the payload. Every gateway that receives a message makes a delivery of it. Each
// delivery has a task id of its own; the message has one id.
type Message struct {
	ID   string `json:"message_id"`
	To   string `json:"to"`
	Text string `json:"text"`
}

// NewTask makes a delivery of m. The delivery continues the trace of ctx.
func NewTask(ctx context.Context, m Message) (*asynq.Task, error) {
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return asynq.NewTaskWithHeaders(Type, payload, lockasynq.TraceHeaders(ctx, nil)), nil
}

// Decode reads the payload of a delivery.
func Decode(task *asynq.Task) (m Message, err error) {
	err = json.Unmarshal(task.Payload(), &m)
	return m, err
}
