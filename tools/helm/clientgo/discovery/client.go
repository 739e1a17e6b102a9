package discovery

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Client would ask a cluster which types it has.
type Client struct{}

// NewDiscoveryClientForConfig always fails: there is no cluster.
func NewDiscoveryClientForConfig(*rest.Config) (*Client, error) {
	return nil, errors.New("the tests render without a cluster")
}

// ServerResourcesForGroupVersion always fails: there is no cluster.
func (*Client) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, errors.New("the tests render without a cluster")
}
