"""The small part of a control plane that pods need: claims from templates, allocation, binding."""
