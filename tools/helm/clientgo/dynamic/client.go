package dynamic

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ResourceInterface would read objects of one type from a cluster.
type ResourceInterface interface {
	Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error)
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// NamespaceableResourceInterface is a ResourceInterface of all namespaces.
type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

// Interface would be a client of a cluster.
type Interface interface {
	Resource(schema.GroupVersionResource) NamespaceableResourceInterface
}

// NewForConfig always fails: there is no cluster.
func NewForConfig(*rest.Config) (Interface, error) {
	return nil, errors.New("the tests render without a cluster")
}
